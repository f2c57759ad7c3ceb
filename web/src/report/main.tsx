// The page of any report.

import './base.css';
import './report.css';
import { App, checkReport } from './app';
import { carried, start } from './page';

start((root) => <App report={checkReport(carried('attnlab-report'))} root={root} />);
