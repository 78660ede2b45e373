"""How a report looks: the page around its parts, with colours for light and dark that people tell apart."""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}: simulation</title>
<style>
:root { color-scheme: light dark;
  --page: #f6f6f4; --card: #fff; --ink: #1b1b19; --soft: #5c5b57; --grid: #e4e3df; --good: #087030; --bad: #b3261e;
  --s0: #9b9a94; --s1: #2a78d6; --s2: #008300; --s3: #e87ba4; --s4: #eda100; --s5: #1baf7a; --s6: #eb6834;
  --s7: #4a3aa7;
  --h0: #eeeeec; --h1: #d3e4f8; --h2: #abccf1; --h3: #7fb1ea; --h4: #4f93df; --h5: #2a78d6; --h6: #1f5ba4;
  --h7: #143e72; }
@media (prefers-color-scheme: dark) { :root {
  --page: #131312; --card: #1d1d1b; --ink: #f1f0ec; --soft: #b3b1aa; --grid: #373632; --good: #5fc98a; --bad: #f2857b;
  --s0: #87867f; --s1: #3987e5; --s2: #21a021; --s3: #d55181; --s4: #c98500; --s5: #199e70; --s6: #d95926;
  --s7: #9085e9;
  --h0: #2b2b29; --h1: #17304d; --h2: #1b4270; --h3: #205594; --h4: #2869b8; --h5: #3987e5; --h6: #7db1f0;
  --h7: #bdd8f9; } }
body { margin: 0 auto; padding: 24px; max-width: 980px; background: var(--page); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
section, header { background: var(--card); border-radius: 8px; padding: 16px 20px; margin-bottom: 16px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 17px; margin: 0 0 4px; }
p { color: var(--soft); margin: 4px 0 8px; } code { font-size: 13px; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 12px; }
dt { color: var(--soft); font-size: 13px; } dd { margin: 0; font-size: 22px; font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 400; } th, td { padding: 4px 8px 4px 0; vertical-align: top; }
.holds { color: var(--good); } .fails { color: var(--bad); font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; list-style: none; padding: 0; margin: 4px 0; font-size: 13px; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; }
.legend i.most { height: 0; border-radius: 0; border-top: 2px solid var(--ink); vertical-align: middle; }
.legend i.demand { height: 0; border-radius: 0; border-top: 2px dashed var(--soft); vertical-align: middle; }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(380px, 1fr)); gap: 8px; }
figure { margin: 0; } figcaption { font-size: 14px; }
svg { width: 100%; height: auto; display: block; } text { font-size: 12px; fill: var(--soft); }
.grid { stroke: var(--grid); } .base { stroke: var(--soft); }
.area { stroke: var(--card); stroke-width: 0.5; }
.most { fill: none; stroke: var(--ink); stroke-width: 1.75; }
.demand { fill: none; stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 4 3; }
.bar { fill: var(--s1); } .range { stroke: var(--s1); stroke-width: 5; stroke-linecap: round; opacity: 0.45; }
.dot { fill: var(--s1); stroke: var(--card); stroke-width: 2; }
{colours}
.line { fill: none; stroke-width: 1.75; }
</style></head><body>
{body}
</body></html>
""".replace(
    "{colours}",
    "\n".join(
        [f".s{at} {{ fill: var(--s{at}); }} i.s{at} {{ background: var(--s{at}); }}" for at in range(8)]
        + [f".line.s{at} {{ stroke: var(--s{at}); }}" for at in range(8)]
        + [f".h{at} {{ fill: var(--h{at}); }} i.h{at} {{ background: var(--h{at}); }}" for at in range(8)]
    ),
)
