// The claims page.

import '../base.css';
import '../../playground/plane.css';
import './claims.css';
import { carried, start } from '../page';
import { App } from './app';
import { readLedger } from './ledger';

start((root) => <App ledger={readLedger(carried())} root={root} />);
