// Starts the studio.

import '../report/base.css';
import './studio.css';
import './pages.css';
import { start } from '../report/page';
import { App } from './app';
import { Client, StudioContext } from './client';

start((root) => {
  const client = new Client();
  client.start();
  return (
    <StudioContext.Provider value={client}>
      <App root={root} />
    </StudioContext.Provider>
  );
});
