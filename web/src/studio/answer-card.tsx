// One answer: how sure, what else it would have said, whom it may have mistaken, what it attended to.

import { useEffect, useState } from 'preact/hooks';
import { plain } from '../report/prose';
import { ask } from './api';
import type { Thresholds } from './api-types';
import type { Asked } from './ask-page';
import { percent } from './format';
import { Busy, Failure, Share, useWork } from './parts';
import type { Router } from './router';
import { Viewer } from './viewer';

const WRITTEN = 32; // tokens of an answer at most

const MEANING: Record<Asked['answer']['verdict'], string> = {
  known: 'sure enough that 95 of 100 such answers about people it read of are right',
  unsure: 'more likely right than a guess, but not known',
  guess: 'at least half of such answers are wrong',
};

interface Props {
  asked: Asked;
  open: boolean;
  toggle: () => void;
  router: Router;
}

export function AnswerCard({ asked, open, toggle, router }: Props) {
  const { question, answer, probability, margin, verdict, alternatives, nearest } = asked.answer;
  const { name, trained } = asked.answer;
  return (
    <article class="answer" data-verdict={verdict}>
      <p class="dim question">
        <bdi>{plain(question)}</bdi>
      </p>
      <div class="said">
        <p class="saying">
          <bdi>{plain(answer) || '(nothing)'}</bdi>
        </p>
        <span class="verdict" data-verdict={verdict} title={MEANING[verdict]}>
          {plain(verdict)}
        </span>
      </div>
      <div class="sure">
        <span class="dim small">confidence</span>
        <Share value={probability} look="strong" marks={marksOf(asked.threshold)} />
        <span class="dim small">
          {`${ahead(margin)}; ${verdict}: ${MEANING[verdict]}`}
        </span>
      </div>
      {trained === false && (
        <p class="stranger small">
          No question of its training names <bdi>{plain(name ?? '')}</bdi>. If it read nothing of that name
          either, this is a guess however sure it is: the audit below counts how many invented people
          it calls known.
        </p>
      )}
      <div class="beside">
        {alternatives.length > 0 && (
          <div>
            <h3>It might have said</h3>
            <ul class="others">
              {alternatives.map((each, i) => (
                <li key={i}>
                  <bdi>{plain(each.answer) || '(nothing)'}</bdi>
                  <Share value={each.probability} />
                </li>
              ))}
            </ul>
          </div>
        )}
        {nearest.length > 0 && (
          <div>
            <h3>Names of its training questions that are most alike</h3>
            <ul class="others">
              {nearest.map(([name, likeness], i) => (
                <li key={i}>
                  <bdi>{plain(name)}</bdi>
                  <Share value={likeness} />
                </li>
              ))}
            </ul>
          </div>
        )}
      </div>
      <button type="button" aria-expanded={open} onClick={toggle}>
        {open ? 'Close the attention' : 'Attention of this answer'}
      </button>
      {open && <Attention asked={asked} router={router} />}
    </article>
  );
}

// What is written token by token need not be the likeliest of all.
export function ahead(margin: number): string {
  return margin < 0 ? `${percent(-margin)} behind the next` : `${percent(margin)} ahead of the next`;
}

function marksOf({ known, guess }: Thresholds): [number, string][] {
  const marks: [number, string][] = [];
  if (guess) marks.push([guess, `guess below ${guess.toFixed(2)}`]);
  if (known !== null) marks.push([known, `known from ${known.toFixed(2)}`]);
  return marks;
}

function Attention({ asked, router }: { asked: Asked; router: Router }) {
  const [capture, setCapture] = useState('');
  const work = useWork();
  useEffect(() => {
    router.set({}, 'view=generation'); // not what was chosen in another viewer
    work.run(async (signal) => {
      const { question, room } = asked.answer;
      const body = { subject: asked.run, text: question, generate: Math.min(WRITTEN, room) };
      setCapture((await ask('POST /api/look', { body, signal })).capture);
    });
  }, []);
  return (
    <div class="attention">
      {work.busy && <Busy text="The model answers again, and is watched…" />}
      <Failure text={work.failure} />
      {capture && <Viewer capture={capture} router={router} />}
    </div>
  );
}
