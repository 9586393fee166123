// Light, dark, or as the system says. `early_theme.js` sets the choice before the first paint.
import { Store } from "./store.js";

export const CHOICES = ["system", "light", "dark"];

const KEY = "ottla.theme";
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const choiceNow = () => document.documentElement.dataset.theme ?? "system";
const stateOf = (choice) => ({ choice, isDark: choice === "dark" || (choice === "system" && darkSystem.matches) });

export const theme = new Store(stateOf(choiceNow()));

export function chooseTheme(choice) {
  if (choice === "system") {
    localStorage.removeItem(KEY);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(KEY, choice);
    document.documentElement.dataset.theme = choice;
  }
  theme.set(stateOf(choice));
}

darkSystem.addEventListener("change", () => theme.set(stateOf(choiceNow())));
