// A picture of the visitor's, read in the page: errors are sentences that say what to try.

const MOST_BYTES = 2_000_000;
const KINDS = ["image/png", "image/jpeg"];

/** { name, content }: the file in base64. What is too large, or neither PNG nor JPEG, is an Error. */
export async function openPicture(file) {
  if (!KINDS.includes(file.type)) {
    throw new Error(`${file.name} is neither a PNG nor a JPEG file; expected a picture; try saving it as one`);
  }
  if (file.size > MOST_BYTES) {
    const size = (file.size / 1e6).toFixed(1);
    throw new Error(`${file.name} has ${size} MB; expected at most ${MOST_BYTES / 1e6} MB; try a smaller copy of it`);
  }
  const address = await new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(new Error(`${file.name} could not be read; try another file`));
    reader.readAsDataURL(file);
  });
  return { name: file.name, content: address.slice(address.indexOf(",") + 1) };
}
