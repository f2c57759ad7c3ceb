// A seeded random number generator (mulberry32), so that an address shows the same on every machine.

export function uniformGenerator(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b1) | 0; // spreads neighboring seeds
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

// Normal numbers by the Box-Muller method, which makes pairs.
export function normalGenerator(seed: number): () => number {
  const uniform = uniformGenerator(seed);
  let spare: number | null = null;
  return () => {
    if (spare !== null) {
      const value = spare;
      spare = null;
      return value;
    }
    const radius = Math.sqrt(-2 * Math.log(1 - uniform())); // 1 - u is never 0
    const angle = 2 * Math.PI * uniform();
    spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  };
}
