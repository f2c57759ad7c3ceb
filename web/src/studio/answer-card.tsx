// One answer: its confidence, other candidates, similar names, and the model's attention.

import { useEffect, useState } from 'preact/hooks';
import { plainText } from '../report/text-format';
import { request } from './api';
import type { Thresholds } from './api-types';
import type { AnsweredQuestion } from './ask-page';
import { formatPercent } from './format';
import { BusyMessage, Failure, FractionBar, useTask } from './components';
import type { Router } from './router';
import { CaptureViewer } from './capture-viewer';

const MAX_ANSWER_TOKENS = 32; // that the attention view generates

const MEANING: Record<AnsweredQuestion['answer']['verdict'], string> = {
  known: 'at this confidence, 95 of 100 answers about names in its training data are right',
  unsure: 'more probably right than a guess, but not reliable',
  guess: 'at least half of such answers are wrong',
  'not in what I read': 'the model gives no answer a high probability, as it does for names that it never read',
  'another kind of question': 'no question that it was trained on was worded like this one',
};
const NO_ANSWER: ReadonlySet<string> = new Set(['not in what I read', 'another kind of question']);

interface Props {
  answered: AnsweredQuestion;
  right: string | null; // the right answer of an example
  open: boolean;
  toggle: () => void;
  router: Router;
}

export function AnswerCard({ answered, right, open, toggle, router }: Props) {
  const { question, answer, probability, margin, verdict, alternatives, nearest } = answered.answer;
  const { name, trained } = answered.answer;
  return (
    <article class="answer" data-verdict={verdict}>
      <p class="dim question">
        <bdi>{plainText(question)}</bdi>
      </p>
      <div class="said">
        <p class="saying" data-guess={NO_ANSWER.has(verdict)}>
          {NO_ANSWER.has(verdict) && <span class="dim small">it would guess </span>}
          <bdi>{plainText(answer) || '(nothing)'}</bdi>
        </p>
        <span class="verdict" data-verdict={verdict} title={MEANING[verdict]}>
          {plainText(verdict)}
        </span>
      </div>
      {right !== null && (
        <p class="small">
          <span class="dim">Right answer:</span> <b><bdi>{plainText(right)}</bdi></b>
        </p>
      )}
      <div class="sure">
        <span class="dim small">confidence</span>
        <FractionBar value={probability} look="strong" marks={thresholdMarks(answered.threshold)} />
        <span class="dim small">
          {`${describeMargin(margin)}; ${verdict}: ${MEANING[verdict]}`}
        </span>
      </div>
      {!answered.threshold.fitted && (
        <p class="stranger small">
          Too few questions were held out to fit thresholds, so no answer is called known.
        </p>
      )}
      {trained === false && verdict === 'known' && (
        <p class="stranger small">
          No training question contains <bdi>{plainText(name ?? '')}</bdi>. If its training text does not
          contain that name either, the answer is a guess: the audit below counts how many people who do
          not exist the model calls known.
        </p>
      )}
      <div class="beside">
        {alternatives.length > 0 && (
          <div>
            <h3>Other candidate answers</h3>
            <ul class="others">
              {alternatives.map((alternative, i) => (
                <li key={i}>
                  <bdi>{plainText(alternative.answer) || '(nothing)'}</bdi>
                  <FractionBar value={alternative.probability} />
                </li>
              ))}
            </ul>
          </div>
        )}
        {nearest.length > 0 && (
          <div>
            <h3>Most similar names in the training questions</h3>
            <ul class="others">
              {nearest.map(([name, similarity], i) => (
                <li key={i}>
                  <bdi>{plainText(name)}</bdi>
                  <FractionBar value={similarity} />
                </li>
              ))}
            </ul>
          </div>
        )}
      </div>
      <button type="button" aria-expanded={open} onClick={toggle}>
        {open ? 'Close the attention' : 'Attention of this answer'}
      </button>
      {open && <Attention answered={answered} router={router} />}
    </article>
  );
}

// Greedy decoding need not find the most probable answer, so the margin may be negative.
export function describeMargin(margin: number): string {
  return margin < 0 ? `${formatPercent(-margin)} behind the next answer` : `${formatPercent(margin)} ahead of the next answer`;
}

function thresholdMarks({ known, guess }: Thresholds): [number, string][] {
  const marks: [number, string][] = [];
  if (guess) marks.push([guess, `guess below ${guess.toFixed(2)}`]);
  if (known !== null) marks.push([known, `known from ${known.toFixed(2)}`]);
  return marks;
}

function Attention({ answered, router }: { answered: AnsweredQuestion; router: Router }) {
  const [capture, setCapture] = useState('');
  const work = useTask();
  useEffect(() => {
    router.set({}, 'view=generation'); // not the view selected elsewhere
    work.run(async (signal) => {
      const { question, remaining_tokens } = answered.answer;
      const generate = Math.min(MAX_ANSWER_TOKENS, remaining_tokens);
      const body = { target: `run:${answered.run}`, text: question, generate };
      setCapture((await request('POST /api/look', { body, signal })).capture);
    });
  }, []);
  return (
    <div class="attention">
      {work.busy && <BusyMessage text="The model answers again to capture its attention…" />}
      <Failure text={work.failure} />
      {capture && <CaptureViewer capture={capture} router={router} />}
    </div>
  );
}
