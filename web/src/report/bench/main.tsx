// The page of a bench.

import '../base.css';
import '../heatmap.css';
import './bench.css';
import { carried, start } from '../page';
import { App } from './app';
import { readReport } from './report';

start((root) => <App report={readReport(carried())} root={root} />);
