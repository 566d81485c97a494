// Browsers start no workers for pages opened as files. There, a hidden frame runs the worker's script instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #waiting = [];
    #inside = null;

    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.onload = () => {
        this.#inside = inside;
        this.#waiting.splice(0).forEach((data) => this.postMessage(data));
      };
      script.src = address;
      frame.contentDocument.body.append(script);
    }

    postMessage(data) {
      if (this.#inside === null) this.#waiting.push(data);
      else this.#inside.dispatchEvent(new this.#inside.MessageEvent("message", { data }));
    }
  };
}
