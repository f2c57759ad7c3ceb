// Presentation mode: the list of saved views, and the bar of a presentation.

import { useEffect, useState } from 'preact/hooks';
import { downloadFile, toFileName } from '../../shared/download';
import type { Capture } from '../capture';
import type { Choices } from '../choices';
import {
  addSlide, formatPresentation, formatSlides, moveSlide, SLIDES_META, slideTitle, type Presentation,
} from '../slides';
import { findView } from '../views/index';
import { fullScreen } from './use-presentation';

interface SlidesProps {
  capture: Capture;
  presentation: Presentation;
  choices: Choices;
  setSlides: (slides: Choices[]) => void;
  show: (choices: Choices) => void;
  start: () => void;
  close: () => void;
}

export function Slides(props: SlidesProps) {
  const { capture, presentation, choices, setSlides, show, start, close } = props;
  const { slides } = presentation;
  const [message, setMessage] = useState('');
  const add = (): void => {
    const longer = addSlide(slides, choices);
    if (longer) setSlides(longer);
    setMessage(longer ? '' : 'The list is full.');
  };
  const copy = async (): Promise<void> => {
    const link = window.location.href.split('#')[0];
    const text = `${link}#${formatPresentation({ slides, at: null })}`;
    try {
      await navigator.clipboard.writeText(text);
      setMessage('The link is copied.');
    } catch {
      setMessage('The link is in the address bar: copy it there.');
    }
  };
  return (
    <section class="slides" aria-label="Views to present">
      <div class="slides-top">
        <h2>Views to present</h2>
        <button type="button" class="primary" onClick={start}>
          Start presentation
        </button>
        <button type="button" title="Key: v" onClick={add}>
          Add this view
        </button>
        <button type="button" disabled={!slides.length} onClick={() => void copy()}>
          Copy link
        </button>
        <button
          type="button"
          disabled={!slides.length}
          title="A copy of this page that holds these views"
          onClick={() => savePage(capture.header.title, slides)}
        >
          Save page
        </button>
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
      {!slides.length && (
        <p class="dim">
          No views yet. Open a view, choose what it shows, and add it; then start. Arrow keys, or a
          presenter’s clicker, step through them. The address of this page keeps the list.
        </p>
      )}
      <ol>
        {slides.map((slide, i) => {
          const title = slideTitle(capture, findView(slide.view), slide);
          return (
            <li key={i}>
              <button type="button" class="slide-name" onClick={() => show(slide)}>
                {title}
              </button>
              <button
                type="button" aria-label={`Move up: ${title}`} title="Move up" disabled={i === 0}
                onClick={() => setSlides(moveSlide(slides, i, -1))}
              >
                ↑
              </button>
              <button
                type="button" aria-label={`Move down: ${title}`} title="Move down"
                disabled={i === slides.length - 1}
                onClick={() => setSlides(moveSlide(slides, i, 1))}
              >
                ↓
              </button>
              <button
                type="button" aria-label={`Remove: ${title}`} title="Remove"
                onClick={() => setSlides(slides.filter((_, other) => other !== i))}
              >
                ✕
              </button>
            </li>
          );
        })}
      </ol>
      <p class="dim" role="status">
        {message}
      </p>
    </section>
  );
}

// A copy of this page with the views in its head; its script and data are the same.
function savePage(title: string, slides: Choices[]): void {
  const copy = document.documentElement.cloneNode(true) as HTMLElement;
  for (const name of copy.getAttributeNames())
    if (name.startsWith('data-')) copy.removeAttribute(name);
  const root = document.createElement('div');
  root.id = 'attnlab';
  copy.querySelector('#attnlab')?.replaceWith(root);
  copy.querySelector('body')?.removeAttribute('class');
  copy.querySelector(`meta[name=${SLIDES_META}]`)?.remove();
  const meta = document.createElement('meta');
  meta.name = SLIDES_META;
  meta.content = formatSlides(slides);
  copy.querySelector('head')?.append(meta);
  const page = new Blob(['<!doctype html>\n', copy.outerHTML], { type: 'text/html' });
  void downloadFile(() => page, `${toFileName(title) || 'look'}-presentation.html`);
}

interface BarProps {
  at: number;
  count: number;
  title: string;
  go: (to: number) => void;
  exit: () => void;
}

const HIDE_MS = 2500;

// Appears while the pointer moves, on touch screens always.
export function PresenterBar({ at, count, title, go, exit }: BarProps) {
  const [visible, setVisible] = useState(true);
  useEffect(() => {
    let timer = 0;
    const wake = (): void => {
      setVisible(true);
      window.clearTimeout(timer);
      timer = window.setTimeout(() => setVisible(false), HIDE_MS);
    };
    wake();
    document.addEventListener('pointermove', wake);
    return () => {
      window.clearTimeout(timer);
      document.removeEventListener('pointermove', wake);
    };
  }, []);
  return (
    <div class={visible ? 'present-bar visible' : 'present-bar'} role="toolbar" aria-label="Presentation">
      <button type="button" aria-label="Previous view" disabled={at === 0} onClick={() => go(at - 1)}>
        ←
      </button>
      <span class="number">
        {at + 1} / {count}
      </span>
      <button
        type="button" aria-label="Next view" disabled={at === count - 1} onClick={() => go(at + 1)}
      >
        →
      </button>
      <span class="present-title">{title}</span>
      {!document.fullscreenElement && document.fullscreenEnabled && (
        <button type="button" onClick={fullScreen}>
          Full screen
        </button>
      )}
      <button type="button" onClick={exit} title="Key: Escape">
        Exit
      </button>
    </div>
  );
}
