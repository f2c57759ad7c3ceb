// Starts the studio.

import '../report/base.css';
import './studio.css';
import './pages.css';
import { startPage } from '../report/page-frame';
import { App } from './app';
import { Client, StudioContext } from './client';

startPage((root) => {
  const client = new Client();
  client.start();
  return (
    <StudioContext.Provider value={client}>
      <App root={root} />
    </StudioContext.Provider>
  );
});
