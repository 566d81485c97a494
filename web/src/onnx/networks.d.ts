declare module "*.onnx" {
  /** The file in base64. */
  const file: string;
  export default file;
}
