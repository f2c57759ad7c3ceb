// The type of tables for pages and CSV files.

export interface Table {
  title: string;
  header: string[];
  rows: (string | number)[][];
}
