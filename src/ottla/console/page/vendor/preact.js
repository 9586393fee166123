// Preact, its hooks and htm under one name.
import { h } from "./preact/core.js";
import htm from "./htm/htm.js";

export { h, render, createContext, createRef, Component, Fragment } from "./preact/core.js";
export * from "./preact/hooks.js";
export const html = htm.bind(h);
