// Builds the page into dist/: one script, one style, an icon, and the shell that names them. Names have a hash of the content.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const BYTES_MAX = 150 * 1024;

const result = await build({
    entryPoints: { app: 'src/main.tsx', style: 'src/style.css' },
    outdir: 'dist',
    entryNames: '[name]-[hash]',
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    charset: 'utf8',
    write: false,
});

// A file that is as it was is left alone: cargo looks at its time.
const files = {};
const names = {};
let bytes = 0;
for (const { path, contents } of result.outputFiles) {
    const name = path.split('/').pop();
    names[name.split('.').pop()] = name;
    bytes += contents.length;
    files[name] = Buffer.from(contents);
}
const icon = readFileSync('src/icon.svg');
names.svg = `icon-${createHash('sha256').update(icon).digest('hex').slice(0, 8)}.svg`;
files[names.svg] = icon;
const shell = readFileSync('src/index.html', 'utf8');
files['index.html'] = Buffer.from(shell.replace(/assets\/\w+\.(\w+)/g, (_, end) => `assets/${names[end]}`));

mkdirSync('dist', { recursive: true });
const there = readdirSync('dist').filter(name => !name.startsWith('.'));
for (const name of there.filter(name => !(name in files))) rmSync(`dist/${name}`, { recursive: true });
for (const [name, content] of Object.entries(files)) {
    if (!there.includes(name) || !readFileSync(`dist/${name}`).equals(content)) writeFileSync(`dist/${name}`, content);
}
console.log(`The page has ${(bytes / 1024).toFixed(1)} KiB of script and style.`);
if (bytes > BYTES_MAX) {
    console.error(`That is more than ${BYTES_MAX / 1024} KiB.`);
    process.exit(1);
}
