/** The wire format of protocol buffers: enough of it to read an ONNX file. */

/** The fields of a message in order: number, and either an integer or bytes. */
export function* fields(bytes: Uint8Array): Generator<[number, bigint, Uint8Array]> {
  const nothing = new Uint8Array(0);
  let place = 0;
  const integer = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[place++];
      if (byte === undefined) throw new Error("ONNX: expected more bytes, got the end of the file.");
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
  };
  while (place < bytes.length) {
    const tag = Number(integer());
    const number = tag >> 3;
    const size = { 1: 8, 5: 4 }[tag & 7];
    if ((tag & 7) === 0) {
      yield [number, integer(), nothing];
    } else if (size !== undefined || (tag & 7) === 2) {
      const length = size ?? Number(integer());
      yield [number, 0n, bytes.subarray(place, place + length)];
      place += length;
    } else {
      throw new Error(`ONNX: expected a known type of field, got ${tag & 7}.`);
    }
  }
}

/** Bytes as text. */
export function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** Bytes of a float. */
export function float(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset, 4).getFloat32(0, true);
}
