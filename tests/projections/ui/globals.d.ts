/* What vendored scripts put into the page, as far as the modules use it. */

declare class uPlot {
  constructor(options: object, data: (number | null)[][] | number[][], target: HTMLElement);
  static paths: { stepped(options: { align: 1 | -1 }): unknown };
  static tzDate(date: Date, zone: string): Date;
  ctx: CanvasRenderingContext2D;
  bbox: { left: number; top: number; width: number; height: number };
  cursor: { idx: number | null; left: number; top: number };
  valToPos(value: number, scale: string, canvasPixels?: boolean): number;
  setData(data: (number | null)[][]): void;
  setSize(size: { width: number; height: number }): void;
  destroy(): void;
}
declare const Idiomorph: { morph(from: Element, to: string | Element, options?: object): Element[] };
