// Presets of the plane: one for each claim of topics 1 to 3 that two dimensions can show, with a
// suggestion what to try. The other claims need more dimensions, training, or a matrix per head.

import type { Plane } from './plane-attention';

export interface Preset {
  id: string; // the id of its claim
  topic: 1 | 2 | 3;
  title: string;
  text: string; // two sentences: what to try, what to see
  plane: Plane;
}

const IDENTITY = [1, 0, 0, 1]; // the identity matrix
const RING = [[1.2, 0], [0.37, 1.14], [-0.97, 0.71], [-0.97, -0.71], [0.37, -1.14]]; // prettier-ignore
const VALUES = [[1.5, 0.2], [0.2, 1.5], [-1.4, 0.9], [-1.1, -1.2], [0.9, -1.4]]; // prettier-ignore
const ORTHOGONAL_PAIR = [[1, 0], [0, 1], [-0.8, -0.3], [-0.3, -0.8]]; // prettier-ignore

function makePlane(settings: Partial<Plane>): Plane {
  const keys = settings.keys ?? RING;
  return {
    keys,
    values: VALUES.slice(0, keys.length),
    queries: [[1.8, 0]],
    identical: false,
    beta: 1,
    isotropic: 0,
    radial: 0,
    noisy: keys.map(() => false),
    samples: 200,
    seed: 1,
    allowed: keys.map(() => true),
    how: 'before',
    self: false,
    causal: false,
    query: IDENTITY,
    value: IDENTITY,
    asking: 0,
    ...settings,
  };
}

const ONLY_FIRST = [true, false, false, false];
const AVERAGE_TWO = { keys: ORTHOGONAL_PAIR, queries: [[1, 1]], beta: 10 };
const NOISY_LENGTH = { ...AVERAGE_TWO, noisy: ONLY_FIRST, radial: 0.5, isotropic: 0.001 };
const SPLIT_HEADS = { ...NOISY_LENGTH, queries: [[1.6, 0], [0, 1.6]], beta: 12 }; // prettier-ignore
const SQUARE = [[1.3, 0], [0, 1.3], [-1.3, 0], [0, -1.3]]; // prettier-ignore
const LENGTH = 1.3; // L in the claims about a hand-made layer
// x_1 = u_b, x_2 = u_a and another token. The claims are about token 2.
const CONSTRUCTED = { keys: [[0, LENGTH], [LENGTH, 0], [-0.9, -0.9]], self: true, beta: 6, asking: 1 }; // prettier-ignore

export const PRESETS: Preset[] = [
  {
    id: 'copy',
    topic: 1,
    title: 'Copy one value',
    text: 'Turn the query from key to key: the output jumps to the value of the key whose score is far above the others. Lower β until the margin is small, and the copy becomes a blend.',
    plane: makePlane({ beta: 5 }),
  },
  {
    id: 'average-two',
    topic: 1,
    title: 'Average two values',
    text: 'The query is the sum of two keys that are orthogonal, so both get half of the weight. Lower β below ln n and the other keys take their share; shorten one key and it loses.',
    plane: makePlane(AVERAGE_TWO),
  },
  {
    id: 'subspace-recovery',
    topic: 1,
    title: 'Take one part out of a sum',
    text: 'Each token is a sum of a part along x and a part along y, and V = A A^T keeps the first: the outputs lie on the axis. Change V to 0, 0, 0, 1 for the other part.',
    plane: makePlane({ keys: [[1.2, 0.8], [-1.1, 1.1]], self: true, value: [1, 0, 0, 0], beta: 6 }), // prettier-ignore
  },
  {
    id: 'noise-isotropic',
    topic: 1,
    title: 'A little noise on every key',
    text: 'Small round noise hardly moves the average of two. Raise the noise slowly and see at which variance the outputs start to move from one value to the other; a larger β fails sooner.',
    plane: makePlane({ ...AVERAGE_TWO, isotropic: 0.005 }),
  },
  {
    id: 'noise-radial',
    topic: 1,
    title: 'Noisy key, one head',
    text: 'Only the length of key 1 varies, and the output swings between the two values, hardly ever staying in the middle. Lower the variance of the length to see the swing end.',
    plane: makePlane(NOISY_LENGTH),
  },
  {
    id: 'identity-outer-product',
    topic: 1,
    title: 'u u^T is not the identity',
    text: 'The cloud of key 1 lies on a line through the origin: the covariance u u^T / 2 has rank one. Set the length variance to 0 and the round noise to 0.5 to see what I/2 would look like.',
    plane: makePlane({ ...NOISY_LENGTH, isotropic: 0, samples: 400 }),
  },
  {
    id: 'longer-key-wins',
    topic: 1,
    title: 'The longer key does not always win',
    text: 'Key 1 is longer than key 2 but points away from the query, so its weight is nothing. Drag it through the origin to the other side and it takes all.',
    plane: makePlane({ ...AVERAGE_TWO, keys: [[-1.5, 0], ...ORTHOGONAL_PAIR.slice(1)] }),
  },
  {
    id: 'heads-identical',
    topic: 1,
    title: 'Identical heads',
    text: 'Two heads have the same query and read the same noisy key, so their mean varies as much as one head: compare the spread with one head. Switch to different queries, with query 1 at key 1 and query 2 at key 2.',
    plane: makePlane({ ...SPLIT_HEADS, queries: [[1, 1], [1, 1]], beta: 10, identical: true }), // prettier-ignore
  },
  {
    id: 'heads-split',
    topic: 1,
    title: 'Split heads',
    text: 'Query 1 matches key 1 and query 2 matches key 2, so the length of key 1 matters little and the spread is many times smaller. Make the queries identical and the spread is back.',
    plane: makePlane(SPLIT_HEADS),
  },
  {
    id: 'heads-split-always',
    topic: 1,
    title: 'Split heads can fail too',
    text: 'Key 1 is almost zero, and head 1 no longer finds it. Drag key 1 past the origin: the outputs lose value 1 altogether.',
    plane: makePlane({ ...SPLIT_HEADS, keys: [[0.06, 0], ...ORTHOGONAL_PAIR.slice(1)], radial: 0 }),
  },
  {
    id: 'key-scaled',
    topic: 1,
    title: 'A long key takes over',
    text: 'Key 3 is much longer than the rest and takes the weight of every query on its side. Turn the query around: only on the other side do the others get a share.',
    plane: makePlane({ keys: RING.map((key, i) => (i === 2 ? [-1.9, 1.4] : key)), queries: [[-0.2, 1]], beta: 4 }), // prettier-ignore
  },
  {
    id: 'self-copy',
    topic: 2,
    title: 'Self-attention that copies',
    text: 'Q, K and V are the identity, and every token of the same length finds itself. Move two tokens close together, or lower β, and they begin to mix.',
    plane: makePlane({ keys: SQUARE, self: true, beta: 5 }),
  },
  {
    id: 'self-add-b',
    topic: 2,
    title: 'Adding a direction to a token',
    text: 'Token 3 is the sum of tokens 1 and 2: its score with each is L^2, but with itself 2 L^2, so it still copies itself. Shorten all tokens (a smaller L) and it does not.',
    plane: makePlane({ keys: [[1.3, 0], [0, 1.3], [1.3, 1.3]], self: true, beta: 5, asking: 2 }), // prettier-ignore
  },
  {
    id: 'self-construct',
    topic: 2,
    title: 'Hand-made Q, K, V',
    text: 'The plane has room for two of the four directions, x_2 = u_a along x and x_1 = u_b along y: Q = u_b u_a^T / L^2 turns u_a into u_b, so token 2 asks for token 1, and V = u_b u_b^T / L^2 keeps u_b alone, so c_2 = u_b, as the claim says. Edit Q and V and predict what comes out.',
    plane: makePlane({ ...CONSTRUCTED, query: [0, 0, 1, 0], value: [0, 0, 0, 1] }),
  },
  {
    id: 'self-construct-typo',
    topic: 2,
    title: 'The same with a mistake in Q',
    text: 'Again x_2 = u_a and x_1 = u_b, but Q keeps u_b instead of turning u_a into it, so token 2 asks for nothing, q_2 = 0, and averages all values: c_2 is not u_b. Set Q to 0, 0, 1, 0 to correct it.',
    plane: makePlane({ ...CONSTRUCTED, query: [0, 0, 0, 1], value: [0, 0, 0, 1] }),
  },
  {
    id: 'self-construct-scale',
    topic: 2,
    title: 'The same with V too long',
    text: 'Again x_2 = u_a and x_1 = u_b, but V is L times too long, and so is the output: c_2 = L u_b. The weights do not change: they depend on Q and K alone.',
    plane: makePlane({ ...CONSTRUCTED, query: [0, 0, 1, 0], value: [0, 0, 0, LENGTH] }),
  },
  {
    id: 'identity-and-permutation',
    topic: 2,
    title: 'Every token copies the next',
    text: 'Q turns by a right angle, so that each token asks for the next one around: hard attention is any permutation. Set Q to −1, 0, 0, −1 and each copies the one across.',
    plane: makePlane({ keys: SQUARE, self: true, query: [0, -1, 1, 0], beta: 5 }),
  },
  {
    id: 'permutation-equivariance',
    topic: 2,
    title: 'Order does not matter',
    text: 'Write down two outputs, then swap their tokens in the table of numbers: the outputs swap too and all others stay. With the causal mask they do not.',
    plane: makePlane({ keys: [[1.1, 0.4], [-0.3, 1.2], [-1, -0.9]], self: true, beta: 1.5 }), // prettier-ignore
  },
  {
    id: 'convolution-one-head',
    topic: 2,
    title: 'One head only averages',
    text: 'Key 2 is the pixel itself and keys 1 and 3 its neighbors: wherever you move the query, the output stays within the triangle of the values. A filter that sharpens, 2 v_2 - v_1, lies outside, and no query and no β reaches it.',
    plane: makePlane({ keys: [[-1.2, 0], [0, 1.2], [1.2, 0]], values: [[-1, -0.8], [0, 0.6], [1, -0.8]], queries: [[0.2, 1]], beta: 2 }), // prettier-ignore
  },
  {
    id: 'by-content-by-position',
    topic: 2,
    title: 'By content, by position, or both',
    text: 'Left or right is what a token is, below or above where it stands; Q keeps the first alone, so each token averages its own kind. Set Q to 0, 0, 0, 1 to go by position, and to 1, 0, 0, 1 for both: then each finds itself.',
    plane: makePlane({ keys: [[1.2, 1.2], [1.2, -1.2], [-1.2, 1.2], [-1.2, -1.2]], self: true, query: [1, 0, 0, 0], beta: 4 }), // prettier-ignore
  },
  {
    id: 'beta-hard',
    topic: 3,
    title: 'Temperature',
    text: 'Slide β: near 0 all weights are equal and the entropy is ln n, at 50 one key has all the weight and it is 0. β is the inverse temperature, so a high temperature gives soft weights.',
    plane: makePlane({ queries: [[0.9, 0.5]], beta: 1 }),
  },
  {
    id: 'mask-minus-infinity',
    topic: 3,
    title: 'Mask',
    text: 'Key 1 is hidden before the softmax: its weight is 0 and the others grow so that they sum to 1. Switch to a mask after the softmax: the rest stays small, and the output shrinks toward 0.',
    plane: makePlane({ queries: [[0.9, 0.5]], beta: 1.5, allowed: [false, true, true, true, true] }),
  },
  {
    id: 'two-layer-network',
    topic: 3,
    title: 'A network of two layers',
    text: 'Leave keys and values where they are: they are the matrices of two layers, the query is the input and the weights are the hidden units, c = V^T softmax(β K q). Move the query to 0 and all units are equal, since there is no bias.',
    plane: makePlane({ queries: [[0.6, 0.9]], beta: 2 }),
  },
  {
    id: 'rows-sum-to-one',
    topic: 3,
    title: 'Rows sum to one, columns do not',
    text: 'Each token may attend only to itself and earlier tokens; the sum of its row, at the right, is 1, however few keys are allowed. What a token gets from all rows, the sum of its column, can be anything.',
    plane: makePlane({ keys: RING, self: true, causal: true, beta: 0.8, asking: 4 }),
  },
  {
    id: 'perturb-key',
    topic: 3,
    title: 'Perturbed key',
    text: 'Move key 2 a little: the weights of all keys change, since they share one sum. The thin marks in the table show the weights of the preset.',
    plane: makePlane({ queries: [[0.9, 0.5]], beta: 1.5 }),
  },
  {
    id: 'perturb-query',
    topic: 3,
    title: 'Perturbed query',
    text: 'Three queries read the same keys. Move one: only its own row of weights and its own output change.',
    plane: makePlane({ queries: [[1, 0.2], [-0.7, 0.8], [0.1, -1]], beta: 2 }), // prettier-ignore
  },
  {
    id: 'perturb-key-mean',
    topic: 3,
    title: 'Noise that does not average out',
    text: 'The keys are noisy with mean 0, yet the mean output (the cross) lies apart from the output without noise. Lower the noise: the gap shrinks with the variance, so it is of second order.',
    plane: makePlane({ queries: [[1, 0.3]], beta: 2, isotropic: 0.4, samples: 500 }),
  },
  {
    id: 'perturb-compare',
    topic: 3,
    title: 'A key or a query?',
    text: 'Move key 1 by a few steps of an arrow key and all three outputs change a little; reset, move query 1 by as many steps, and one output changes, by more. Summed over all outputs both changes are about equal, but for its own output the query matters more.',
    plane: makePlane({ keys: RING.slice(0, 3), queries: [[0.9, -0.5], [1, 1], [-0.9, -0.3]], beta: 1 }), // prettier-ignore
  },
  {
    id: 'equal-q-k-identity',
    topic: 3,
    title: 'Q = K is not yet the identity',
    text: 'With Q = K = I a token need not find itself: a longer one in the same direction wins, and short ones mix. Only with large scores, so in many dimensions, are the weights close to the identity.',
    plane: makePlane({ keys: [[0.5, 0.3], [1.4, 0.9], [-0.4, 0.8], [-0.9, -0.6], [0.3, -0.7]], self: true }), // prettier-ignore
  },
];
