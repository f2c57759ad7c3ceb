// What was used last, within a number of bytes.

export class Recent<Value> {
  private readonly kept = new Map<string, { value: Value; bytes: number }>();
  private total = 0;

  constructor(private readonly budget: number) {}

  get(key: string): Value | undefined {
    const entry = this.kept.get(key);
    if (!entry) return undefined;
    this.kept.delete(key); // the newest stands last
    this.kept.set(key, entry);
    return entry.value;
  }

  set(key: string, value: Value, bytes: number, needed?: (key: string) => boolean): void {
    this.remove(key);
    this.kept.set(key, { value, bytes });
    this.total += bytes;
    for (const old of [...this.kept.keys()]) {
      if (this.total <= this.budget) break;
      if (old !== key && !needed?.(old)) this.remove(old);
    }
  }

  has(key: string): boolean {
    return this.kept.has(key);
  }

  remove(key: string): void {
    const entry = this.kept.get(key);
    if (!entry) return;
    this.kept.delete(key);
    this.total -= entry.bytes;
  }

  // What is there, or made now.
  use(key: string, bytes: number, make: () => Value): Value {
    const known = this.get(key);
    if (known !== undefined) return known;
    const fresh = make();
    this.set(key, fresh, bytes);
    return fresh;
  }
}
