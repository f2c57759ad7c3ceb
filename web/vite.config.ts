// One build for each file: scripts for pages (plain ones, so that their hashes can stand in a page's
// content security policy), widget.js for notebooks and studio.js for the server (modules).
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

// The studio's page and its icon lie beside its script.
const page: Plugin = {
  name: 'page',
  generateBundle() {
    for (const fileName of ['index.html', 'icon.svg']) {
      const source = readFileSync(`src/studio/${fileName}`, 'utf8');
      this.emitFile({ type: 'asset', fileName, source });
    }
  },
};

interface Made {
  entry: string;
  folder: string;
  format: 'es' | 'iife';
  style: string;
}

// By name: that of the script and of the mode that builds it.
const MADE: Record<string, Made> = {
  look: { entry: 'src/look/main.ts', folder: 'interpret', format: 'iife', style: 'look' },
  widget: { entry: 'src/look/widget.ts', folder: 'interpret', format: 'es', style: 'look' },
  claims: { entry: 'src/report/claims/main.tsx', folder: 'claims', format: 'iife', style: 'claims' },
  playground: {
    entry: 'src/playground/main.tsx',
    folder: 'claims',
    format: 'iife',
    style: 'playground',
  },
  bench: { entry: 'src/report/bench/main.tsx', folder: 'bench', format: 'iife', style: 'bench' },
  studio: { entry: 'src/studio/main.tsx', folder: 'studio', format: 'es', style: 'studio' },
};

export default defineConfig(({ mode }) => {
  const name = mode in MADE ? mode : 'look'; // tests have a mode of their own
  const made = MADE[name];
  return {
    define: { 'process.env.NODE_ENV': '"production"' },
    plugins: name === 'studio' ? [licence, page] : [licence],
    build: {
      target: 'es2022',
      outDir: `../attnlab/${made.folder}/static`,
      emptyOutDir: false,
      copyPublicDir: false,
      reportCompressedSize: false,
      minify: true,
      cssMinify: true,
      rolldownOptions: { output: { minify: true } }, // else a module keeps its spaces
      lib: {
        entry: made.entry,
        formats: [made.format],
        name: 'attnlabLook',
        fileName: () => `${name}.js`,
        cssFileName: made.style,
      },
    },
    test: { include: ['src/**/*.test.ts'], environment: 'node' },
  };
});
