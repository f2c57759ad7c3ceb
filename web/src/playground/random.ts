// Random numbers of our own (mulberry32), so that an address shows the same to everybody.

export function uniforms(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b1) | 0; // so that neighboring seeds are far apart
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

// By Box and Muller, in pairs.
export function normals(seed: number): () => number {
  const uniform = uniforms(seed);
  let kept: number | null = null;
  return () => {
    if (kept !== null) {
      const value = kept;
      kept = null;
      return value;
    }
    const size = Math.sqrt(-2 * Math.log(1 - uniform())); // 1 - u is never 0
    const angle = 2 * Math.PI * uniform();
    kept = size * Math.sin(angle);
    return size * Math.cos(angle);
  };
}
