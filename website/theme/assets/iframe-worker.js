// A browser starts no worker from a page that is opened as a file. A hidden iframe takes the worker's place, so that
// search works without a server. The theme would load such a script from another host.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.loaded = new Promise(done => this.frame.addEventListener("load", done))
      document.body.appendChild(this.frame)
      const inside = this.frame.contentWindow
      inside.document.open()
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.document.write(`<!DOCTYPE html><html><body><script src="${url}"></script></body></html>`)
      inside.document.close()
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}
