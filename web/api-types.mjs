// src/studio/api-types.ts from an OpenAPI description on standard input: every schema as a type, and
// `Api`, which has of each endpoint what it takes and what it gives.

import { writeFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { compile } from 'json-schema-to-typescript';

const HEADER = `// Made by \`npm run api\` from the models in attnlab/studio/_requests.py and responses.py. Do not edit.`;

const [, , file] = process.argv;
const { paths, components } = JSON.parse(
  (await text(process.stdin)).replaceAll('#/components/schemas/', '#/$defs/'),
);

const object = (properties, required = Object.keys(properties)) => ({
  type: 'object',
  properties,
  required,
});

const given = (parameters, place) => {
  const here = parameters.filter((each) => each.in === place);
  const required = here.filter((each) => each.required).map(({ name }) => name);
  const schemas = here.map(({ name, schema }) => [name, schema]);
  return here.length ? { [place]: object(Object.fromEntries(schemas), required) } : {};
};

// A query that may be empty may be left out.
const optional = ([place, schema]) => place === 'query' && !schema.required.length;

const endpoint = ({ parameters = [], requestBody, responses }) => {
  const [status] = Object.keys(responses).filter((each) => each < '300');
  const { content } = responses[status];
  const json = content['application/json']?.schema;
  const events = content['text/event-stream']?.schema.oneOf.map(({ properties: { event, data } }) => [
    event.const,
    data.contentSchema,
  ]);
  const body = requestBody?.content['application/json']?.schema;
  const parts = {
    ...given(parameters, 'path'),
    ...given(parameters, 'query'),
    ...(body && { body }),
    ...(json && { response: json }),
    ...(events && { events: object(Object.fromEntries(events)) }),
  };
  const required = Object.entries(parts).filter((each) => !optional(each));
  return object(parts, required.map(([name]) => name));
};

const endpoints = Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => [
    `${method.toUpperCase()} ${path}`,
    endpoint(operation),
  ]),
);

// A title would make a type of its own out of every field.
const untitled = (schema) => {
  if (Array.isArray(schema)) return schema.map(untitled);
  if (typeof schema !== 'object' || schema === null) return schema;
  const kept = Object.entries(schema).filter(([name, value]) => name !== 'title' || typeof value !== 'string');
  // a tuple, or a list with a length: the number of items is the server's to check
  const { minItems, maxItems, ...rest } = Object.fromEntries(kept);
  const tuple = rest.prefixItems ? { items: rest.prefixItems, minItems, maxItems } : {};
  return { ...Object.fromEntries(Object.entries(rest).map(([k, v]) => [k, untitled(v)])), ...tuple };
};

const root = { ...object(Object.fromEntries(endpoints)), $defs: components.schemas };
const types = await compile({ ...untitled(root), title: 'Api' }, 'Api', {
  additionalProperties: false,
  bannerComment: HEADER,
  style: { singleQuote: true, printWidth: 100 },
});
writeFileSync(file, types);
