import { readFileSync } from "node:fs";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** Networks become part of the script, since a page from a file may not fetch anything. */
function embedNetworks(): Plugin {
  return {
    name: "embed-networks",
    load(id) {
      if (!id.endsWith(".onnx")) return null;
      return `export default ${JSON.stringify(readFileSync(id).toString("base64"))};`;
    },
  };
}

/** One plain script in place of a module: from a file, browsers load no modules. */
function plainScript(): Plugin {
  return {
    name: "plain-script",
    enforce: "post",
    transformIndexHtml: (html) =>
      html.replace(/<script type="module" crossorigin/g, "<script defer").replace(/ crossorigin/g, ""),
  };
}

export default defineConfig({
  base: "./",
  plugins: [embedNetworks(), plainScript()],
  build: {
    modulePreload: false,
    cssCodeSplit: false, // else a plain script would carry the style sheet inside
    chunkSizeWarningLimit: 5000,
    rollupOptions: {
      output: {
        format: "iife",
        entryFileNames: "live.js",
        assetFileNames: "live[extname]",
      },
    },
  },
  test: { testTimeout: 180_000 },
});
