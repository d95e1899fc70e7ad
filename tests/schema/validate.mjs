// usage: node validate.mjs SAMPLER COUNT      ajv has to be in NODE_PATH's place: a node_modules above this file or cwd
// Samples a reply for each of COUNT schemas and checks it with ajv, which knows nothing of our grammars.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { makeSchemas } from "./schemas.mjs";

const require = createRequire(`${process.cwd()}/`);
const Ajv = require("ajv/dist/2020").default;
const addFormats = require("ajv-formats").default;

const [sampler, count, ...options] = process.argv.slice(2);
const schemas = makeSchemas(Number(count));
const run = spawnSync(sampler, options, {
  input: schemas.map((schema) => JSON.stringify(schema) + "\n").join(""),
  encoding: "utf8",
  maxBuffer: 1 << 28,
});
if (run.error) {
  throw run.error;
}
process.stderr.write(run.stderr);
if (run.status !== 0) {
  process.exit(1);
}
const replies = run.stdout.trimEnd().split("\n").map((line) => JSON.parse(line));

let ended = 0;
let wrong = 0;
let tokens = 0;
schemas.forEach((schema, i) => {
  const reply = replies[i];
  tokens += reply.tokens;
  if (!reply.ended) {
    console.log(`${i}: not ended: ${JSON.stringify(schema)}\n  ${JSON.stringify(reply.text.slice(0, 200))}`);
    return;
  }
  ended += 1;
  let problem;
  try {
    const ajv = new Ajv({ strict: false });
    addFormats(ajv);
    const validate = ajv.compile(schema);
    problem = validate(JSON.parse(reply.text)) ? undefined : ajv.errorsText(validate.errors);
  } catch (error) {
    problem = String(error);
  }
  if (problem !== undefined) {
    wrong += 1;
    console.log(`${i}: WRONG: ${problem}\n  ${JSON.stringify(schema)}\n  ${reply.text}`);
  }
});
console.log(`${schemas.length} schemas: ${ended} replies ended by themselves, ${wrong} of them are not valid; ${tokens} tokens`);
process.exit(wrong === 0 && ended >= 0.95 * schemas.length ? 0 : 1);
