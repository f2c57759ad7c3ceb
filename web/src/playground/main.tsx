// The attention playground as a standalone page, with the statements of the claims embedded.

import '../report/base.css';
import './plane.css';
import './playground.css';
import { pageData, startPage } from '../report/page-frame';
import { App } from './app';
import { readStatements } from './claim-statements';

startPage((root) => <App root={root} statements={readStatements(pageData())} />);
