// The studio.

import '../report/base.css';
import './studio.css';
import './pages.css';
import { start } from '../report/page';
import { App } from './app';
import { Client, Studio } from './client';

start((root) => {
  const client = new Client();
  client.begin();
  return (
    <Studio.Provider value={client}>
      <App root={root} />
    </Studio.Provider>
  );
});
