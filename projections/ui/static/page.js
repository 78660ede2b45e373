// @ts-check
/** What every page loads. */
import "./keys.js";
import "./fresh.js";
import "./time.js";
