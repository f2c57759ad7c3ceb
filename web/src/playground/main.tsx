// The attention playground: one page without data.

import '../report/base.css';
import './playground.css';
import { start } from '../report/page';
import { App } from './app';

start((root) => <App root={root} />);
