// What a page with a server, the studio, can do with a claim.

import { createContext } from 'preact';

export interface ClaimActions {
  run: (id: string) => void;
  running: ReadonlySet<string>;
  busy: boolean; // with any claims
  sceneLink: (id: string) => string; // the address of a claim's scene in the playground
}

export const ClaimActionsContext = createContext<ClaimActions | null>(null);
