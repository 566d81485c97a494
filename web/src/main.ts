import { check } from "./check";
import { startCurve } from "./curve/section";
import { startDigits } from "./digits/section";
import { startForager } from "./forager/section";
import { element } from "./ui/elements";

if (location.protocol === "file:") element("home").removeAttribute("href"); // there is no site around it
startDigits();
startCurve();
startForager();
if (location.search === "?check") Object.assign(window, { dubio: check });
