// Starts the claims page.

import '../base.css';
import '../../playground/plane.css';
import './claims.css';
import { pageData, startPage } from '../page-frame';
import { App } from './app';
import { readLedger } from './ledger';

startPage((root) => <App ledger={readLedger(pageData())} root={root} />);
