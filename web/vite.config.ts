// One build for each file: scripts for pages (plain ones, so that their hashes can stand in a page's
// content security policy), widget.js for notebooks and studio.js for the server (modules).
// No names with hashes, no dates, no maps: the same sources give the same bytes.

import { readFileSync } from 'node:fs';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

// The licenses of all packages in a script go with it.
const licenses: Plugin = {
  name: 'licenses',
  generateBundle(_, bundle) {
    const modules = Object.values(bundle).flatMap((each) => (each.type === 'chunk' ? each.moduleIds : []));
    const names = modules.flatMap((id) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1] ?? []);
    const source = [...new Set(names)]
      .sort()
      .map((name) => `${name}\n\n${readFileSync(`node_modules/${name}/LICENSE`, 'utf8')}`)
      .join('\n\n');
    this.emitFile({ type: 'asset', fileName: 'LICENSES.txt', source });
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
  report: { entry: 'src/report/main.tsx', folder: 'report', format: 'iife', style: 'report' },
  studio: { entry: 'src/studio/main.tsx', folder: 'studio', format: 'es', style: 'studio' },
};

export default defineConfig(({ mode }) => {
  const name = mode in MADE ? mode : 'look'; // tests have a mode of their own
  const made = MADE[name];
  return {
    define: { 'process.env.NODE_ENV': '"production"' },
    plugins: name === 'studio' ? [licenses, page] : [licenses],
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
    // long enough for a machine that is busy with something else
    test: { include: ['src/**/*.test.ts'], environment: 'node', testTimeout: 120_000 },
  };
});
