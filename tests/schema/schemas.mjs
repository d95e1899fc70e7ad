// Varied JSON schemas, the same ones for the same seed: what agents and applications ask for, in random combinations.

function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const names = ["name", "age", "city", "tags", "price", "in_stock", "notes", "id", "kind", "items", "start_date", "email",
  "score", "children", "address", "count", "summary", "color", "unit", "is_valid"];
const words = ["red", "green", "blue", "small", "large", "open", "closed", "n/a", "say \"hi\"", "caf\u00e9"];
const formats = ["date", "date-time", "time", "uuid", "email", "ipv4", "hostname", "uri"];
const patterns = ["^[A-Z]{3}-[0-9]{4}$", "^(yes|no|maybe)$", "^[a-z]+(_[a-z]+)?$", "^\\d{1,3}(\\.\\d{2})?$", "^#[0-9a-f]{6}$",
  "^[^\\s\"]{1,12}$"];

export function makeSchemas(n, seed = 7) {
  const random = randomFrom(seed);
  const below = (k) => Math.floor(random() * k);
  const pick = (list) => list[below(list.length)];
  const some = (list, k) => {
    const rest = [...list];
    return Array.from({ length: k }, () => rest.splice(below(rest.length), 1)[0]);
  };

  const string = () => pick([
    () => ({ type: "string" }),
    () => ({ type: "string", maxLength: 5 + below(60) }),
    () => ({ type: "string", minLength: 1 + below(5), maxLength: 10 + below(20) }),
    () => ({ type: "string", enum: some(words, 2 + below(4)) }),
    () => ({ type: "string", format: pick(formats) }),
    () => ({ type: "string", pattern: pick(patterns) }),
    () => ({ type: "string", pattern: "^[a-z ]*$", minLength: 3, maxLength: 15 }),
    () => ({ const: pick(words) }),
  ])();

  const number = () => pick([
    () => ({ type: "integer" }),
    () => ({ type: "number" }),
    () => ({ type: "integer", minimum: below(20) - 10, maximum: 10 + below(2000) }),
    () => ({ type: "number", minimum: -below(50) / 4, exclusiveMaximum: 0.1 + below(1000) / 8 }),
    () => ({ type: "number", exclusiveMinimum: 0, maximum: 1 }),
    () => ({ type: "integer", exclusiveMinimum: -1000 }),
    () => ({ enum: [1, 2.5, -3] }),
  ])();

  const object = (depth) => {
    const keys = some(names, 1 + below(5));
    const schema = { type: "object", properties: Object.fromEntries(keys.map((key) => [key, value(depth - 1)])) };
    schema.required = keys.filter(() => random() < 0.7);
    const extra = random();
    if (extra < 0.5) {
      schema.additionalProperties = false;
    } else if (extra < 0.6) {
      schema.additionalProperties = number();
    }
    return schema;
  };

  const array = (depth) => pick([
    () => ({ type: "array", items: value(depth - 1), maxItems: 1 + below(4) }),
    () => ({ type: "array", items: value(depth - 1), minItems: 1, maxItems: 3 }),
    () => ({ type: "array", items: number() }),
    () => ({ type: "array", prefixItems: [value(depth - 1), number()], items: false, minItems: 2 }),
  ])();

  const choice = (depth) => pick([
    () => ({ anyOf: [value(depth - 1), { type: "null" }] }),
    () => ({ anyOf: [string(), number(), object(depth - 1)] }),
    () => ({
      oneOf: ["a", "b", "c"].map((kind) => ({
        type: "object", properties: { kind: { const: kind }, value: value(depth - 1) }, required: ["kind", "value"],
      })),
    }),
    () => ({ allOf: [object(depth - 1), { type: "object", properties: { id: { type: "integer", minimum: 1 } } }] }),
    () => ({ type: ["string", "integer", "null"] }),
  ])();

  const value = (depth) => {
    if (depth <= 0) {
      return pick([string, string, number, () => ({ type: "boolean" }), () => ({ type: "null" })])();
    }
    return pick([string, number, () => object(depth), () => array(depth), () => choice(depth)])();
  };

  const recursive = () => ({
    $ref: "#/$defs/node",
    $defs: {
      node: {
        type: "object",
        properties: { value: value(1), next: { anyOf: [{ $ref: "#/$defs/node" }, { type: "null" }] } },
        required: ["value", "next"],
        additionalProperties: false,
      },
    },
  });

  return Array.from({ length: n }, (_, i) => (i % 20 === 19 ? recursive() : i % 4 === 3 ? value(3) : object(2)));
}
