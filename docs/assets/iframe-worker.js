// A browser starts no worker from a page that was opened as a file. The search runs in one, so for such pages this
// stands in for workers: a hidden frame that loads the worker's script and passes messages on.
(() => {
  if (location.protocol !== "file:") return;

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      // What the script posts comes out here.
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      const script = inside.document.createElement("script");
      script.src = new URL(url, location.href).href;
      this.loaded = new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = () => reject(new Error(`${url} cannot be loaded`));
      });
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.loaded.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      });
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.IFrameWorker = window.Worker = IFrameWorker;
})();
