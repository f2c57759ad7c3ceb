// The attention playground as a standalone page, with the statements of the claims embedded.

import '../report/base.css';
import './plane.css';
import './playground.css';
import { carried, start } from '../report/page';
import { App } from './app';
import { readStatements } from './claim-statements';

start((root) => <App root={root} statements={readStatements(carried())} />);
