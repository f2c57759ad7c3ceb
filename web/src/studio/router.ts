// The address as state: links change it, and pages change their own part of it.

import { useEffect, useState } from 'preact/hooks';
import { replaceFragment, type Address } from '../shared/home';
import { linkTo, parseRoute, printRoute, type Fields, type Route } from './routes';

export interface Router {
  route: Route;
  one: (name: string) => string; // of a field, empty where it is not given
  set: (fields: Fields, inner?: string) => void; // some of the fields; without a step in the history
  fill: (fields: Fields) => void; // those of them that the address does not give by now
}

export function useRouter(): Router {
  const [route, setRoute] = useState(() => parseRoute(window.location.hash));
  useEffect(() => {
    const read = (): void => setRoute(parseRoute(window.location.hash));
    window.addEventListener('hashchange', read);
    read(); // the address may have changed before anybody listened
    return () => window.removeEventListener('hashchange', read);
  }, []);
  const write = (change: (now: Route) => Route): void => {
    const now = parseRoute(window.location.hash); // it may have changed since the page was drawn
    if (now.page !== route.page) return; // a page that has been left does not write another's address
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

// What a part of a page keeps behind the page's own address.
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
