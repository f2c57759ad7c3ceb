// A sign of a formula that does not grow with what stands beside it. As a text, because preact removes
// attributes that are false.
export const FIXED_SIZE = { stretchy: 'false' } as unknown as { stretchy: boolean };
