// Starts the page of a report.

import './base.css';
import './report.css';
import { App, checkReport } from './app';
import { pageData, startPage } from './page-frame';

startPage((root) => <App report={checkReport(pageData('attnlab-report'))} root={root} />);
