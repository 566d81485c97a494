/** Call a function at every frame while an element is on the screen. */
export function whileSeen(element: Element, frame: (now: number) => void): void {
  let [seen, request] = [false, 0];
  const next = (now: number): void => {
    frame(now);
    if (seen) request = requestAnimationFrame(next);
  };
  new IntersectionObserver(([entry]) => {
    if (entry.isIntersecting === seen) return;
    seen = entry.isIntersecting;
    if (seen) request = requestAnimationFrame(next);
    else cancelAnimationFrame(request);
  }).observe(element);
}
