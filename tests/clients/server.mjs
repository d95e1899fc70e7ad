// Starts `fathom serve` with the bundled model for a test, and finds the client libraries.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

// The program and the folder of scripts/fetch_test_clients.sh, from the command line: node TEST.mjs FATHOM FOLDER
const [program, folder] = process.argv.slice(2);
export const load = createRequire(`${folder}/package.json`);

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

export class Server {
  static async start(...args) {
    const server = new Server();
    const port = await freePort();
    server.url = `http://127.0.0.1:${port}`;
    server.log = '';
    server.process = spawn(program, ['serve', '--port', String(port), '--threads', '1', ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    server.process.stderr.on('data', (text) => (server.log += text));
    for (let i = 0; i < 600; ++i) {
      if (server.process.exitCode !== null) throw new Error(`fathom serve ended: ${server.log}`);
      const ready = await fetch(`${server.url}/ready`).catch(() => undefined);
      if (ready?.ok) return server;
      await sleep(100);
    }
    server.process.kill('SIGKILL');
    throw new Error(`fathom serve is not ready after a minute: ${server.log}`);
  }

  // Ends it as an operator would; the exit code.
  async stop() {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    this.process.kill('SIGTERM');
    return await ended;
  }

  async metric(name) {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const line = text.split('\n').find((l) => l.startsWith(`${name} `) || l.startsWith(`${name}{`));
    if (line === undefined) throw new Error(`no metric ${name}`);
    return Number(line.split(' ').at(-1));
  }
}

export async function until(condition, what, seconds = 20) {
  for (let i = 0; i < seconds * 20; ++i) {
    if (await condition()) return;
    await sleep(50);
  }
  throw new Error(`waited ${seconds} seconds for: ${what}`);
}

export async function all(iterable) {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
}
