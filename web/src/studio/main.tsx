// Starts the studio.

import '../report/base.css';
import './studio.css';
import './pages.css';
import { startPage } from '../report/page-frame';
import { App } from './app';
import { WindowState, StudioContext } from './window-state';

startPage((root) => {
  const windowState = new WindowState();
  windowState.start();
  return (
    <StudioContext.Provider value={windowState}>
      <App root={root} />
    </StudioContext.Provider>
  );
});
