// A cache that drops the least recently used values when they exceed a number of bytes.

export class LruCache<Value> {
  private readonly entries = new Map<string, { value: Value; bytes: number }>();
  private total = 0;

  constructor(private readonly budget: number) {}

  get(key: string): Value | undefined {
    const entry = this.entries.get(key);
    if (!entry) return undefined;
    this.entries.delete(key); // the most recent entry comes last
    this.entries.set(key, entry);
    return entry.value;
  }

  set(key: string, value: Value, bytes: number, needed?: (key: string) => boolean): void {
    this.remove(key);
    this.entries.set(key, { value, bytes });
    this.total += bytes;
    for (const old of [...this.entries.keys()]) {
      if (this.total <= this.budget) break;
      if (old !== key && !needed?.(old)) this.remove(old);
    }
  }

  has(key: string): boolean {
    return this.entries.has(key);
  }

  remove(key: string): void {
    const entry = this.entries.get(key);
    if (!entry) return;
    this.entries.delete(key);
    this.total -= entry.bytes;
  }
}
