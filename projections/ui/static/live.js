// @ts-check
/** The stream of the pages. All tabs of a browser share one, which watches what any of them shows. */

/** @typedef {{part: [watch: string, id: string, html: string]} | {gone: [watch: string, text: string]} | {fresh: number} | {lost: true}} News */
/** @typedef {(news: News) => void} Tell */

const SILENT_MS = 12_000;
const TIDY_MS = 10_000;
const RETRY_MS = 3_000;

export class Live {
  /** @type {EventSource | undefined} */ #source;
  /** @type {Set<string>} */ #open = new Set();
  /** @type {Map<Tell, string[]>} */ #wanted = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #planned;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #silent;

  /** From now on tells of these pages. @param {Tell} tell @param {string[]} watches */
  watch(tell, watches) {
    this.#wanted.set(tell, watches);
    if (watches.some((each) => !this.#open.has(each)) || !this.#source) this.#plan(20);
  }

  /** @param {Tell} tell */
  leave(tell) {
    this.#wanted.delete(tell);
    this.#plan(TIDY_MS);
  }

  /** Opens the stream again after a while, with what is wanted then. @param {number} ms */
  #plan(ms) {
    clearTimeout(this.#planned);
    this.#planned = setTimeout(() => this.#reopen(), ms);
  }

  #reopen() {
    this.#source?.close();
    this.#source = undefined;
    this.#open = new Set([...this.#wanted.values()].flat());
    clearTimeout(this.#silent);
    if (!this.#open.size) return;
    const query = new URLSearchParams([...this.#open].map((each) => ["watch", each]));
    const source = new EventSource(`/ui/stream?${query}`);
    this.#source = source;
    source.addEventListener("part", ({ data }) => this.#tell({ part: JSON.parse(data) }));
    source.addEventListener("gone", ({ data }) => this.#tell({ gone: JSON.parse(data) }));
    source.addEventListener("fresh", ({ data }) => {
      this.#tell({ fresh: JSON.parse(data) });
      this.#listen();
    });
    source.addEventListener("error", () => {
      this.#tell({ lost: true });
      if (source.readyState === EventSource.CLOSED) this.#plan(RETRY_MS); // refused: the browser doesn't try again
    });
    this.#listen();
  }

  /** A stream that says nothing is broken, whatever the browser thinks of it. */
  #listen() {
    clearTimeout(this.#silent);
    this.#silent = setTimeout(() => {
      this.#tell({ lost: true });
      this.#plan(0);
    }, SILENT_MS);
  }

  /** @param {News} news */
  #tell(news) {
    const watch = "part" in news ? news.part[0] : "gone" in news ? news.gone[0] : undefined;
    for (const [tell, watches] of this.#wanted) if (watch === undefined || watches.includes(watch)) tell(news);
  }
}
