// The attention playground: one page, which carries what the claims say.

import '../report/base.css';
import './plane.css';
import './playground.css';
import { carried, start } from '../report/page';
import { App } from './app';
import { readStatements } from './statements';

start((root) => <App root={root} statements={readStatements(carried())} />);
