// Shows a capture of the server in the viewer of look.

import { useEffect, useState } from 'preact/hooks';
import type { Capture } from '../look/capture';
import lookCss from '../look/look.css?inline';
import { openFile } from '../look/open-capture';
import { App as Look } from '../look/ui/app';
import { ErrorBoundary } from '../shared/error-boundary';
import type { SwitchHeads } from '../look/switch-heads';
import { send, errorMessage, request } from './api';
import { ShadowRootHost } from './shadow-root';
import { BusyMessage, Failure } from './components';
import { innerAddress, type Router } from './router';

// Predictions without some heads, by the model that the capture is of.
const switchHeadsOf =
  (capture: string): SwitchHeads =>
  ({ heads, position }, signal) =>
    request('POST /api/look/heads', {
      body: { capture, position, heads: heads.map(([layer, head]) => ({ layer, head })) },
      signal,
    });

export function CaptureViewer({ capture, router }: { capture: string; router: Router }) {
  const [opened, setOpened] = useState<Capture | null>(null);
  const [failure, setFailure] = useState('');
  useEffect(() => {
    const controller = new AbortController();
    setOpened(null);
    setFailure('');
    send('GET /api/captures/{id}', { path: { id: capture }, signal: controller.signal })
      .then((response) => response.arrayBuffer())
      .then((bytes) => setOpened({ ...openFile(bytes), switchHeads: switchHeadsOf(capture) }))
      .catch((error: unknown) => {
        if (!controller.signal.aborted) setFailure(errorMessage(error));
      });
    return () => controller.abort();
  }, [capture]);
  if (failure) return <Failure text={failure} />;
  if (!opened) return <BusyMessage text="Opening the capture…" />;
  return (
    <ErrorBoundary what={opened}>
      <ShadowRootHost
        key={capture}
        css={lookCss}
        address={innerAddress(router.route.page)}
        show={(root) => <Look capture={opened} host={{ root, notebook: false, id: 'look' }} />}
      />
    </ErrorBoundary>
  );
}
