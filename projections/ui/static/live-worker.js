// @ts-check
/** Holds the stream for all tabs: browsers open six connections to a host at most. */
import { Live } from "./live.js";

const live = new Live();

addEventListener("connect", (event) => {
  const [port] = /** @type {MessageEvent} */ (event).ports;
  /** @param {import("./live.js").News} news */
  const tell = (news) => port.postMessage(news);
  port.onmessage = ({ data }) => {
    if (Array.isArray(data)) live.watch(tell, data);
    else live.leave(tell);
  };
});
