/** An element of the page that is known to be there. */
export function element<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`page: expected an element #${id}, got none.`);
  return found as T;
}

/** The chosen value of a group of radio buttons, and what happens when it changes. */
export function choice<T extends string>(name: string, changed: () => void): () => T {
  const buttons = [...document.querySelectorAll<HTMLInputElement>(`input[name="${name}"]`)];
  for (const button of buttons) button.addEventListener("change", changed);
  return () => buttons.find((button) => button.checked)!.value as T;
}

/** A slider that says its value. */
export function slider(id: string, say: (value: number) => string, changed: () => void): HTMLInputElement {
  const input = element<HTMLInputElement>(id);
  const show = (): void => {
    element<HTMLOutputElement>(`${id}-value`).value = say(Number(input.value));
  };
  input.addEventListener("input", () => {
    show();
    changed();
  });
  show();
  return input;
}

/** What happens when a button is pressed. */
export function press(id: string, done: () => void): HTMLButtonElement {
  const button = element<HTMLButtonElement>(id);
  button.addEventListener("click", done);
  return button;
}

/** As a whole percentage. */
export const percent = (share: number): string => `${Math.round(100 * share)}\u202f%`;

/** With a proper minus sign. */
export const decimal = (value: number, digits = 2): string => value.toFixed(digits).replace("-", "−");
