// The address as state: links change it, and each page changes its own fields.

import { useEffect, useState } from 'preact/hooks';
import { replaceFragment, type Address } from '../shared/page-address';
import { linkTo, parseRoute, printRoute, type Fields, type Route } from './route-format';

export interface Router {
  route: Route;
  one: (name: string) => string; // the first value of a field, else empty
  set: (fields: Fields, inner?: string) => void; // changes some fields, without a step in the history
  fill: (fields: Fields) => void; // sets only fields that the address does not have
}

export function useRouter(): Router {
  const [route, setRoute] = useState(() => parseRoute(window.location.hash));
  useEffect(() => {
    const read = (): void => setRoute(parseRoute(window.location.hash));
    window.addEventListener('hashchange', read);
    read(); // the address may have changed before the listener was added
    return () => window.removeEventListener('hashchange', read);
  }, []);
  const write = (change: (now: Route) => Route): void => {
    const now = parseRoute(window.location.hash); // it may have changed since the last rendering
    if (now.page !== route.page) return; // a page that is no longer shown must not change the address
    const next = printRoute(change(now));
    replaceFragment(next);
    setRoute(parseRoute(next));
  };
  return {
    route,
    one: (name) => route.fields[name]?.[0] ?? '',
    set: (some, inner) =>
      write((now) => ({ ...now, fields: { ...now.fields, ...some }, inner: inner ?? now.inner })),
    fill: (some) => write((now) => ({ ...now, fields: { ...some, ...now.fields } })),
  };
}

// The address of an embedded page, which follows the page's own address.
export function innerAddress(page: string): Address {
  const now = (): Route | null => {
    const route = parseRoute(window.location.hash);
    return route.page === page ? route : null;
  };
  return {
    read: () => now()?.inner ?? null,
    write: (inner) => {
      const route = now();
      if (route) replaceFragment(printRoute({ ...route, inner }));
    },
    link: (inner) => linkTo(page, now()?.fields ?? {}, inner),
  };
}
