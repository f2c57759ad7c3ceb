// Two files from the same sources: look.js for a page (a plain script, so that its hash can stand in
// the page's content security policy) and widget.js for notebooks (a module, as anywidget wants it).
// No names with hashes, no dates, no maps: the same sources give the same bytes.

import { readFileSync } from 'node:fs';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

// Preact's licence goes with its code.
const licence: Plugin = {
  name: 'licence',
  generateBundle() {
    const source = readFileSync('node_modules/preact/LICENSE', 'utf8');
    this.emitFile({ type: 'asset', fileName: 'LICENSE-preact.txt', source });
  },
};

export default defineConfig(({ mode }) => {
  const widget = mode === 'widget';
  return {
    define: { 'process.env.NODE_ENV': '"production"' },
    plugins: [licence],
    build: {
      target: 'es2022',
      outDir: '../attnlab/looking/static',
      emptyOutDir: false,
      copyPublicDir: false,
      reportCompressedSize: false,
      minify: true,
      cssMinify: true,
      rolldownOptions: { output: { minify: true } }, // else a module keeps its spaces
      lib: {
        entry: widget ? 'src/widget.ts' : 'src/main.ts',
        formats: [widget ? 'es' : 'iife'],
        name: 'attnlabLook',
        fileName: () => (widget ? 'widget.js' : 'look.js'),
        cssFileName: 'look',
      },
    },
    test: { include: ['src/**/*.test.ts'], environment: 'node' },
  };
});
