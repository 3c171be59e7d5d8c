// Types that several modules of the dashboard name. Not served: for the type checker only.

type Child = Node | string | number | null | undefined | false | Child[];

interface Place {
  /** `/`, `/s/`, `/memory`, … */
  path: string;
  /** The session's id, on its page. */
  id: string;
  query: URLSearchParams;
  /** Without the `#`. */
  hash: string;
}

/** Fills an element with a page, and returns what undoes it. */
type View = (root: HTMLElement, place: Place) => void | (() => void);

/** A frame of `/v1/live`, or of `live.js` itself (`connection`). */
interface Frame {
  type: string;
  [more: string]: any;
}

declare var trustedTypes: any;
