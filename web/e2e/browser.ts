import { createServer, type Server } from "node:http";
import { existsSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
const TYPES: Readonly<Record<string, string>> = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
/** Nothing inline, no evaluation, nothing from elsewhere. */
export const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'";
export const FILE = pathToFileURL(join(DIST, "index.html")).href;

/** The built page under a strict policy, on a port of its own. */
export async function serve(): Promise<{ server: Server; address: string }> {
  if (!existsSync(join(DIST, "index.html"))) throw new Error("dist: expected a built page, got none; npm run build.");
  const server = createServer((request, response) => {
    const path = new URL(request.url!, "http://localhost").pathname;
    const file = join(DIST, path === "/" ? "index.html" : path.slice(1));
    if (path === "/favicon.ico" || !existsSync(file)) return void response.writeHead(path === "/favicon.ico" ? 204 : 404).end();
    response.writeHead(200, { "Content-Type": TYPES[extname(file)], "Content-Security-Policy": POLICY });
    return void response.end(readFileSync(file));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { server, address: `http://127.0.0.1:${port}/` };
}

/** Headless Chromium that calls nobody. */
export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
    ],
  });
}

/** A visit, with everything that the page says in the console and all that it asks for. */
export async function visit(browser: Browser, address: string, options: BrowserContextOptions = {}): Promise<{ page: Page; said: string[]; asked: string[] }> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const said: string[] = [];
  const asked: string[] = [];
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("request", (request) => asked.push(request.url()));
  await page.goto(address);
  return { page, said, asked };
}
